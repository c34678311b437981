import { registerFunctions } from "../../../../src/adapters/azure/index.js";
import { defineApp } from "../../../../src/app/index.js";

registerFunctions(defineApp({ handlers: () => ({ push: async () => {} }) }));
