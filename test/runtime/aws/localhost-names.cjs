// Preloaded where a queue's URL is at a name below "localhost", which not every system resolves.
const dns = require("node:dns");

const lookup = dns.lookup;
dns.lookup = (name, ...rest) => lookup(name.endsWith(".localhost") ? "127.0.0.1" : name, ...rest);
