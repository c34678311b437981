import { sqlitePackages } from "./bundle-folder.js";
import { sqliteForFunctions } from "./functions-database.js";
import { functionsSuite } from "./functions-suite.js";

functionsSuite({ database: "sqlite", provided: sqlitePackages, open: sqliteForFunctions });
