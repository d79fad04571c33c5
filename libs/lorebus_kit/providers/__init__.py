"""What turns a prepared session into lessons: rules that are built in, or a model behind an HTTP endpoint.

The gateway previews with them, the distill workers distil with them, `lorebus distill try` tries them.
"""
