// `node schemas.cjs FOLDER-WITH-AJV SCHEMA INSTANCES`: what Ajv says of each instance that `schemas.py` printed.
const { readFileSync } = require("node:fs");
const { createRequire } = require("node:module");
const [modules, schema, instances] = process.argv.slice(2);
const Ajv = createRequire(modules + "/")("ajv/dist/2020").default;
// Strict: keywords that are ignored, and patterns that ECMA-262 does not read, are errors of the schema.
const validate = new Ajv({ strict: true, allowUnionTypes: true, allErrors: true }).compile(JSON.parse(readFileSync(schema)));
const found = {};
for (const [name, { value }] of Object.entries(JSON.parse(readFileSync(instances)))) {
    found[name] = validate(value) ? [] : validate.errors.map((error) => `${error.instancePath}: ${error.message}`);
}
process.stdout.write(JSON.stringify(found));
