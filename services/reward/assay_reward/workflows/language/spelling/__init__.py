"""What both forms of the language spell alike: numbers, texts, conditions."""
