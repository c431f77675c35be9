"""What a first reader may skip: connectors, the continuous engine, transformWithState. registry.py plugs them in."""
