import { messageReceiveFunction } from "../../src/adapters/aws/index.js";
import service from "../service.js";

export const handler = messageReceiveFunction(service);
