import { migrateFunction } from "../../src/adapters/aws/index.js";
import app from "../app.js";

export const handler = migrateFunction(app);
