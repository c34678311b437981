import { registerFunctions } from "../../../../src/adapters/azure/index.js";
import { defineApp } from "../../../../src/index.js";

registerFunctions(defineApp({ handlers: () => ({ push: async () => {} }) }));
