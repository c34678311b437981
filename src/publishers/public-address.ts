import { BlockList, isIP, isIPv4 } from "node:net";

/** One for each family: a list compares an IPv4 address with the IPv6 form of IPv4, too. */
const notPublic = { ipv4: new BlockList(), ipv6: new BlockList() };
for (const [net, prefix] of [
  ["0.0.0.0", 8],
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["127.0.0.0", 8],
  ["169.254.0.0", 16],
  ["172.16.0.0", 12],
  ["192.0.0.0", 24],
  ["192.168.0.0", 16],
  ["198.18.0.0", 15],
  ["224.0.0.0", 3],
] as const)
  notPublic.ipv4.addSubnet(net, prefix, "ipv4");
for (const [net, prefix] of [
  ["::", 96], // unspecified, loopback, and IPv4 in its old form
  ["::ffff:0:0", 96], // IPv4
  ["64:ff9b::", 96], // IPv4 behind a translator
  ["64:ff9b:1::", 48],
  ["2002::", 16], // IPv4 in a tunnel
  ["fc00::", 7],
  ["fe80::", 10],
  ["fec0::", 10],
  ["ff00::", 8],
] as const)
  notPublic.ipv6.addSubnet(net, prefix, "ipv6");

/** Whether an address belongs to nobody's own network: neither private nor loopback nor link-local nor multicast. */
export function isPublicAddress(address: string): boolean {
  const plain = address.split("%", 1)[0]!;
  if (isIP(plain) === 0) return false;
  const family = isIPv4(plain) ? "ipv4" : "ipv6";
  return !notPublic[family].check(plain, family);
}
