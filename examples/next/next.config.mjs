/** Not bundled: it loads the driver of your database when it needs it. */
export default { serverExternalPackages: ["oncebox"] };
