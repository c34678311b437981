export type { Secret, Secrets } from "../base/secrets.js";
export type { NodeMiddleware } from "../http/node.js";
export { webhookBody } from "./extract-message.js";
export type { PresetName } from "./preset-names.js";
export { loadPreset, presetNames } from "./preset-names.js";
export type {
  Credential,
  GithubHook,
  GithubRecovery,
  RecoverGithubOptions,
} from "./recovery/recover-github.js";
export { recoverGithub } from "./recovery/recover-github.js";
export type { WebhookMiddlewareOptions, WebhookRoute } from "./route.js";
export { createWebhookRoute, webhookMiddleware } from "./route.js";
export type { ReceivedWebhook, WebhookInbox, WebhookRouteOptions } from "./route-options.js";
export type * from "./schemes/scheme.js";
export type { Template, Templates } from "./schemes/template.js";
export type { SignedRequest, SignOptions } from "./signing/sign-webhook.js";
export { signWebhook } from "./signing/sign-webhook.js";
export type { WebhookSource } from "./sources.js";
