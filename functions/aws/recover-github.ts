import { recoverGithubFunction } from "../../src/adapters/aws/index.js";

/** Of the webhooks that ONCEBOX_RECOVER_GITHUB names. */
export const handler = recoverGithubFunction();
