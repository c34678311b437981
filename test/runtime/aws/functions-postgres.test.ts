import { inject } from "vitest";
import { postgresForFunctions } from "./functions-database.js";
import { functionsSuite } from "./functions-suite.js";

const url = inject("postgresUrl");

functionsSuite({ database: "postgres", open: () => postgresForFunctions(url) });
