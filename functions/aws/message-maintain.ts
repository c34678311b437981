import { messageMaintainFunction } from "../../src/adapters/aws/index.js";
import service from "../service.js";

export const handler = messageMaintainFunction(service);
