/** In a file of its own: a function app that starts loads it, and not the servers that also use it. */
export const jsonContent = { "content-type": "application/json" };
