/** All that a program composed by hand needs from the root. */
export {
  createDispatcher,
  createInbox,
  createOutbox,
  createWorker,
  migrate,
  purgeWithin,
  reapWithin,
} from "../../../src/index.js";
