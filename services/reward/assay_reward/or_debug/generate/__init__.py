"""Generation of broken models: four kinds of mistakes, three difficulties, all models checked."""
