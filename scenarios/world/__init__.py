"""Pure parts of the world that the real run and the model share."""
