import { webhookFunction } from "../../src/adapters/aws/functions.js";
import app from "./app.js";

export const handler = webhookFunction(app);
