// Predict, then run: the page asks before a step, and hides what comes later until there is an answer or it was skipped.
// The questions are those of lens/view/questions.py: steps[i].asks = [[question, choices, number of the right one, why, why each of the
// others is wrong], ...], to be asked before step i. What was answered is kept as a sixth value: the number of the choice, or "skipped".

let asking = false, question = null;  // is the switch on; the question that is open now, with the step that it is asked before

// The first question without an answer that stands before a step after `from`, up to `to`.
function nextQuestion(from, to) {
  for (let step = from + 1; asking && step <= to; step++) {
    const open = (steps[step].asks || []).find(asked => asked.length === 5);
    if (open) return { step, asked: open };
  }
  return null;
}

function setAsking(on) {
  asking = on && steps.some(step => step.asks);
  one("[data-go=ask]").ariaPressed = asking;
  show(at);
}

// Shows a question in the place of the step, or takes it away.
function ask(next) {
  const had = question;
  question = next;
  one("#question").hidden = !next;
  root.classList.toggle("veiled", !!nextQuestion(at, steps.length - 1));
  if (!next) { if (had) one("[data-go=forward]").focus(); return; }
  pause();
  const [asks, choices] = next.asked;
  one("#asks").textContent = asks;
  one("#choices").replaceChildren(...choices.map((choice, number) => {
    const button = document.createElement("button");
    button.textContent = choice;
    button.dataset.choice = number;
    button.title = `key: ${number + 1}`;
    return button;
  }));
  one("#verdict").textContent = "";
  one("#question [data-go=skip]").hidden = false;
  one("#question [data-go=next]").hidden = true;
  one("#choices button").focus();
}

function answer(number) {
  if (!question || question.asked.length > 5 || !question.asked[1][number]) return;
  const [, choices, right, why, wrong] = question.asked, buttons = all("#choices button");
  question.asked.push(number);
  buttons[right].className = "right";
  if (number !== right) buttons[number].className = "wrong";
  for (const button of buttons) button.disabled = true;
  const given = steps.flatMap(step => step.asks || []).filter(asked => asked.length > 5 && asked[5] !== "skipped");
  const score = `${given.filter(asked => asked[5] === asked[2]).length} of ${given.length} right so far.`;
  const words = number === right ? "Right" : `No: ${wrong[number]}. The answer is “${choices[right]}”`;
  one("#verdict").textContent = `${words}. ${why[0].toUpperCase()}${why.slice(1)}. ${score}`;
  one("#question [data-go=skip]").hidden = true;
  one("#question [data-go=next]").hidden = false;
  one("#question [data-go=next]").focus();
}

function skip() {
  if (!question) return;
  if (question.asked.length === 5) question.asked.push("skipped");
  show(question.step);
}
