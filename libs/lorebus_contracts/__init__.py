"""The wire: topics, events, HTTP models and workflow types. JSON Schemas are generated from these models."""
