// The controls of the page of a checkpoint: a slider over the versions of each store, a search over all rows, light and dark.

for (const store of document.querySelectorAll(".store-versions")) {
  const versions = [...store.querySelectorAll("[data-version]")], slider = store.querySelector("input");
  const show = () => {
    versions.forEach((version, i) => { version.hidden = i !== +slider.value; });
    store.querySelector("output").textContent = versions[+slider.value].dataset.version;
  };
  slider.addEventListener("input", show);
  show();
}

const search = document.querySelector("input[type=search]"), count = document.querySelector("search output");
search.addEventListener("input", () => {
  const wanted = search.value.trim().toLowerCase();
  let found = 0;
  for (const row of document.querySelectorAll("tbody tr")) {
    row.hidden = !row.textContent.toLowerCase().includes(wanted);
    found += !row.hidden && !row.closest("[hidden]");
  }
  if (wanted) for (const fold of document.querySelectorAll("details")) fold.open = true;
  count.textContent = wanted ? `${found || "no"} row${found === 1 ? "" : "s"}` : "";
});

const theme = () => {
  const dark = document.body.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  document.body.dataset.theme = dark === "dark" ? "light" : "dark";
};
document.querySelector("#theme").addEventListener("click", theme);
document.addEventListener("keydown", event => {
  if (event.target.matches("input") || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "d") theme();
  if (event.key === "/") { event.preventDefault(); search.focus(); }
});
