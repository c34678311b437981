export { registerFunctions } from "./register-functions.js";
