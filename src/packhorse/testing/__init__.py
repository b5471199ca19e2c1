"""What makes code that uses Packhorse easy to test."""
