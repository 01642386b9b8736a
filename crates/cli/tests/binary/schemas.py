"""`schemas.py SCHEMA FILE... > INSTANCES`: converts TOML files to JSON, and prints the verdict of Python's jsonschema on each.

Prints an object: for each file its `value`, and `wrong`, the messages of the validator.
"""

import json
import re
import sys
import tomllib

from jsonschema import Draft202012Validator


def patterns(schema):
    """Every regular expression of a schema."""
    if isinstance(schema, dict):
        if isinstance(schema.get("pattern"), str):
            yield schema["pattern"]
        yield from schema.get("patternProperties", {})
        for value in schema.values():
            yield from patterns(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from patterns(value)


with open(sys.argv[1]) as file:
    schema = json.load(file)
Draft202012Validator.check_schema(schema)
for pattern in patterns(schema):
    re.compile(pattern)
validator = Draft202012Validator(schema)
found = {}
for name in sys.argv[2:]:
    with open(name, "rb") as file:
        value = tomllib.load(file)
    wrong = [f"{'/'.join(map(str, error.path))}: {error.message}" for error in validator.iter_errors(value)]
    found[name] = {"value": value, "wrong": wrong}
json.dump(found, sys.stdout)
