// Preloaded (`node --require`) instead of the native part of Amazon's runtime interface client, which speaks HTTP with
// the Runtime API: the next invocation, its response, its error. Everything else is Amazon's own code.
const http = require("node:http");
const Module = require("node:module");

const [hostname, port] = process.env.AWS_LAMBDA_RUNTIME_API.split(":");
const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });

function call(method, path, body, headers = {}) {
  return new Promise((resolve, reject) => {
    const request = http.request(
      { hostname, port, agent, method, path: `/2018-06-01/runtime/invocation/${path}`, headers },
      (response) => {
        const chunks = [];
        response.on("data", (chunk) => chunks.push(chunk));
        response.on("end", () =>
          resolve({ bodyJson: Buffer.concat(chunks).toString(), headers: response.headers }),
        );
        response.on("error", reject);
      },
    );
    request.on("error", reject);
    request.end(body);
  });
}

// The native calls return when the response is delivered. Here the next invocation waits for that.
let delivered = Promise.resolve();

const client = {
  next: () => delivered.then(() => call("GET", "next")),
  done(id, body) {
    delivered = call("POST", `${id}/response`, body);
  },
  error(id, body) {
    delivered = call("POST", `${id}/error`, body);
  },
};

const load = Module._load;
Module._load = function (request, ...rest) {
  return request === "./rapid-client.node" ? client : load.call(this, request, ...rest);
};
