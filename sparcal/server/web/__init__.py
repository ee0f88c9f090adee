"""Requests and answers: the application, its pages, its JSON API, and who may come in."""
