// `node schemas.cjs FOLDER-WITH-AJV SCHEMA INSTANCES`: prints Ajv's verdict on each instance from `schemas.py`.
const { readFileSync } = require("node:fs");
const { createRequire } = require("node:module");
const [modules, schema, instances] = process.argv.slice(2);
const Ajv = createRequire(modules + "/")("ajv/dist/2020").default;
// Strict: unknown keywords, and patterns invalid in ECMA-262, are errors of the schema.
const validate = new Ajv({ strict: true, allowUnionTypes: true, allErrors: true }).compile(JSON.parse(readFileSync(schema)));
const found = {};
for (const [name, { value }] of Object.entries(JSON.parse(readFileSync(instances)))) {
    found[name] = validate(value) ? [] : validate.errors.map((error) => `${error.instancePath}: ${error.message}`);
}
process.stdout.write(JSON.stringify(found));
