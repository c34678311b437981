/** One line of the example: who, and what. */
export const print = (who: string, what: string): void => console.log(`  ${who.padEnd(10)} ${what}`);
