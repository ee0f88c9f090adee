"""What happens between a few good parts and a calibrated lot."""
