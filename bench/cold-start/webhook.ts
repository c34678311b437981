import { webhookFunction } from "../../src/adapters/aws/webhook-function.js";
import app from "./app.js";

export const handler = webhookFunction(app);
