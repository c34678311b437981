import { messageDispatchFunction } from "../../../../src/adapters/aws/index.js";
import { open } from "../service.js";

export const handler = messageDispatchFunction(open);
