import { createServer, type Socket } from "node:net";
import { listenOn } from "./loopback.js";
import { openSockets } from "./open-sockets.js";

/** An error that the server reports. */
export interface TdsError {
  readonly number: number;
  readonly message?: string;
}

/**
 * The server's side of the TDS protocol, as far as a driver needs it to log in and to send statements. Every statement
 * succeeds and returns no rows. Faults at login are what it is for: no server produces those on demand.
 */
export interface TdsPeer {
  readonly port: number;
  /** The next logins fail with these, one each. */
  failLogins(errors: readonly TdsError[]): void;
  /** The next statement begins a transaction and fails with this, and the transaction stays open. */
  failOpen(error: TdsError): void;
  /** Logins so far, failed ones included. */
  logins(): number;
  /** Statements and transaction requests so far, without what a driver sends after its login. */
  requests(): number;
  /** The connections that are open now. */
  connections(): number;
  /** Ends the open connections, as a server or a gateway does. */
  dropConnections(): void;
  /** The open connections stay open, and nothing comes back on them any more. New ones work. */
  muteConnections(): void;
  close(): Promise<void>;
}

const packetType = {
  sqlBatch: 0x01,
  rpc: 0x03,
  attention: 0x06,
  transaction: 0x0e,
  login: 0x10,
  preLogin: 0x12,
};

export async function startTdsPeer(): Promise<TdsPeer> {
  const sockets = openSockets();
  const muted = new WeakSet<Socket>();
  const loginErrors: TdsError[] = [];
  let openError: TdsError | undefined;
  let logins = 0;
  let requests = 0;
  const answer = (type: number, body: Buffer): Buffer => {
    if (type === packetType.preLogin) return preLoginResponse;
    if (type === packetType.login) {
      logins++;
      const error = loginErrors.shift();
      return error === undefined
        ? Buffer.concat([loginAck, done()])
        : Buffer.concat([errorToken(error), done(2)]);
    }
    if (type === packetType.attention) return done(0x20);
    if (type === packetType.transaction) {
      requests++;
      return Buffer.concat([transactionChange(body), done()]);
    }
    if (type === packetType.rpc) requests++;
    if (type === packetType.rpc && openError !== undefined) {
      const error = errorToken(openError);
      openError = undefined;
      return Buffer.concat([begun, error, done(2, 0xfe)]);
    }
    return type === packetType.rpc ? done(0, 0xfe) : done();
  };
  const server = createServer((socket) => {
    sockets.add(socket);
    const read = messageReader((type, body) => {
      if (!muted.has(socket)) socket.write(packet(answer(type, body)));
    });
    socket.on("data", read);
  });
  const at = await listenOn(server, { port: 0 });
  return {
    port: "port" in at ? at.port : 0,
    failLogins: (errors) => void loginErrors.push(...errors),
    failOpen: (error) => {
      openError = error;
    },
    logins: () => logins,
    requests: () => requests,
    connections: () => sockets.size(),
    dropConnections: () => sockets.destroyAll(),
    muteConnections: () => {
      for (const socket of sockets) muted.add(socket);
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        sockets.destroyAll();
      }),
  };
}

/** Calls back with each whole message, of one packet or of several. */
function messageReader(onMessage: (type: number, body: Buffer) => void): (chunk: Buffer) => void {
  let rest = Buffer.alloc(0);
  let parts: Buffer[] = [];
  return (chunk) => {
    rest = Buffer.concat([rest, chunk]);
    while (rest.length >= 8 && rest.length >= rest.readUInt16BE(2)) {
      const length = rest.readUInt16BE(2);
      const [type, isLast] = [rest[0]!, (rest[1]! & 1) === 1];
      parts.push(rest.subarray(8, length));
      rest = rest.subarray(length);
      if (!isLast) continue;
      onMessage(type, Buffer.concat(parts));
      parts = [];
    }
  };
}

/** A server's response in one packet: all of them are short. */
function packet(body: Buffer): Buffer {
  const header = Buffer.from([0x04, 0x01, 0, 0, 0, 0, 1, 0]);
  header.writeUInt16BE(body.length + 8, 2);
  return Buffer.concat([header, body]);
}

/** A version, and that encryption is not supported. */
const preLoginResponse = Buffer.from([
  ...[0x00, 0, 11, 0, 6], // VERSION: offset 11, 6 bytes
  ...[0x01, 0, 17, 0, 1], // ENCRYPTION: offset 17, 1 byte
  0xff,
  ...[16, 0, 0x10, 0x00, 0, 0],
  0x02,
]);

const shortText = (text: string) => Buffer.concat([Buffer.from([text.length]), Buffer.from(text, "utf16le")]);

const withLength = (token: number, body: Buffer): Buffer => {
  const start = Buffer.from([token, 0, 0]);
  start.writeUInt16LE(body.length, 1);
  return Buffer.concat([start, body]);
};

const loginAck = withLength(
  0xad,
  Buffer.concat([Buffer.from([1, 0x74, 0, 0, 4]), shortText("peer"), Buffer.from([16, 0, 0, 0])]),
);

function errorToken({ number, message = `error ${number}` }: TdsError): Buffer {
  const start = Buffer.alloc(8);
  start.writeInt32LE(number, 0);
  start[4] = 1; // state
  start[5] = 14; // class
  start.writeUInt16LE(message.length, 6);
  const text = Buffer.from(message, "utf16le");
  return withLength(0xaa, Buffer.concat([start, text, shortText("peer"), shortText(""), Buffer.alloc(4)]));
}

/** DONE, or DONEPROC after a call of a procedure. */
function done(status = 0, token = 0xfd): Buffer {
  const body = Buffer.alloc(13);
  body[0] = token;
  body.writeUInt16LE(status, 1);
  return body;
}

const descriptor = Buffer.from([8, 1, 0, 0, 0, 0, 0, 0, 0]);
/** ENVCHANGE: a transaction has begun. */
const begun = withLength(0xe3, Buffer.concat([Buffer.from([8]), descriptor, Buffer.from([0])]));

/** ENVCHANGE: a transaction has begun, was committed, or was rolled back. After the header comes the request's kind. */
function transactionChange(body: Buffer): Buffer {
  const kind = body.readUInt16LE(body.readUInt32LE(0));
  if (kind === 5) return begun;
  return withLength(0xe3, Buffer.concat([Buffer.from([kind === 7 ? 9 : 10, 0]), descriptor]));
}
