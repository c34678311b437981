/** The version of this package. Not read from package.json: a bundle has none. A test compares them. */
export const packageVersion = "0.1.0";
