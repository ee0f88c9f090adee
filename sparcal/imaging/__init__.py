"""Files to tensors to maps: find, decode and preprocess images, encode them, draw their scores."""
