import { adminFunction } from "../../src/adapters/aws/index.js";
import app from "../app.js";

export const handler = adminFunction(app);
