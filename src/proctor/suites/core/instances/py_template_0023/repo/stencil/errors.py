class TemplateError(Exception):
    def __init__(self, message, template, line):
        super().__init__(f"{template}, line {line}: {message}")
        self.template = template
        self.line = line
