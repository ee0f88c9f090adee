"""What the API takes and gives, as types; FastAPI makes the OpenAPI description from them."""
