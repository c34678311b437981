import { cleanupFunction } from "../../src/adapters/aws/index.js";
import app from "../app.js";

export const handler = cleanupFunction(app);
