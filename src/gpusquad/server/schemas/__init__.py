"""The API's data as its description shows it. Bodies are checked by these; answers are plain data that fit them."""
