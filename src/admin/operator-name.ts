import { invisible } from "./page/invisible.js";

const longest = 100;

export const operatorRule = `must be a text of 1 to ${longest} characters, without control characters, marks of direction and other characters that nobody sees`;

/**
 * Whether a record may name a person so. Who reads the record must see who it was: a mark of direction shows a name
 * backwards, and a character without width makes two names of one.
 */
export const isOperatorName = (name: string): boolean =>
  name !== "" &&
  name.length <= longest &&
  name.isWellFormed() &&
  !invisible.test(name) &&
  name.trim() === name;
