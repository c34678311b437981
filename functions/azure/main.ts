import { registerFunctions } from "../../src/adapters/azure/index.js";
import app from "../app.js";

registerFunctions(app);
