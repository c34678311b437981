import { registerMessageFunctions } from "../../../../src/adapters/azure/index.js";
import { open } from "../service.js";

registerMessageFunctions(open);
