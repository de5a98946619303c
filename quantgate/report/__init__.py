"""From findings to what people and programs read: text, Markdown, JSON."""
