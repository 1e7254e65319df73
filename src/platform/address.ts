/**
 * Checks IP addresses: which of them a URL from a caller may lead to (only those of the public internet), and which are
 * in given ranges.
 */
import { isIP } from 'node:net'
import { networkInterfaces } from 'node:os'
import ipaddr from 'ipaddr.js'

/**
 * Global unicast (RFC 4291 2.4, IANA). Every other IPv6 address is local, reserved, or hides an IPv4 address.
 */
const globalUnicast: [ipaddr.IPv6, number] = [ipaddr.IPv6.parse('2000::'), 3]

/**
 * Addresses in public ranges where a cloud serves secrets to its own machines. All other known ones are
 * link-local, private or reserved.
 */
const cloudAddresses: readonly string[] = [
  // Azure's wire server: learn.microsoft.com/azure/virtual-network/what-is-ip-address-168-63-129-16
  '168.63.129.16',
  // metadata.packet.net, later metadata.platformequinix.com: packet.com/developers/docs/servers/key-features/metadata
  '192.80.8.124',
  // The following addresses are in private ranges. They matter where private ranges are allowed.
  // AWS (docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html),
  // Google (cloud.google.com/compute/docs/metadata/querying-metadata), Alibaba (alibabacloud.com/help/en/ecs/user-guide/view-instance-metadata).
  'fd00:ec2::254',
  'fd20:ce::254',
  '100.100.100.200',
]

/**
 * Returns the current addresses of this machine's interfaces, without those that its network translates to
 * them.
 */
export const ownAddresses = (): string[] =>
  Object.values(networkInterfaces()).flatMap(all => all?.map(({ address }) => address) ?? [])

/**
 * Returns whether the address is public unicast of another machine. IPv4 inside IPv6 (mapped, or NAT64's
 * 64:ff9b::/96, by which networks without IPv4 reach it) is checked as the IPv4 address. Other forms (6to4,
 * Teredo, compatible) are not public.
 *
 * @param text an address as `lookup` returns it; anything else is not public
 * @param own addresses of this machine: a service on one of its public addresses expects callers from outside
 */
export function isPublicAddress(text: string, own: readonly string[]): boolean {
  const address = parseAddress(text)
  if (address?.range() !== 'unicast') return false
  if (address instanceof ipaddr.IPv6 && !address.match(globalUnicast)) return false
  return ![...cloudAddresses, ...own].some(
    candidate => parseAddress(candidate)?.toString() === address.toString(),
  )
}

/**
 * Ranges of private networks and of this machine. Link-local is not among them: clouds serve metadata there.
 */
const privateRanges: readonly string[] = ['private', 'loopback', 'uniqueLocal', 'carrierGradeNat']

/**
 * Returns whether the address is public, private or this machine's. Addresses where a cloud serves secrets
 * are not.
 */
export function isReachableAddress(text: string): boolean {
  const address = parseAddress(text)
  if (
    !address ||
    cloudAddresses.some(cloudAddress => parseAddress(cloudAddress)?.toString() === address.toString())
  )
    return false
  return isPublicAddress(text, []) || privateRanges.includes(address.range())
}

/** Parses an address. IPv4 inside IPv6 becomes the IPv4 address. */
function parseAddress(text: string): ipaddr.IPv4 | ipaddr.IPv6 | undefined {
  if (!ipaddr.isValid(text)) return undefined
  const address = ipaddr.parse(text)
  if (address instanceof ipaddr.IPv4) return address
  if (address.isIPv4MappedAddress()) return address.toIPv4Address()
  const isNat64 = address.range() === 'rfc6052' && address.parts[2] === 0
  return isNat64 ? new ipaddr.IPv4(address.toByteArray().slice(12)) : address
}

/** Returns an address in its usual form, IPv4 inside IPv6 as IPv4; undefined for any other text. */
export function canonicalAddress(text: string): string | undefined {
  const version = isIP(text)
  // Other forms of IPv4 are no address for `isIP`.
  if (version === 4) return text
  return version === 0 ? undefined : ipaddr.process(text).toString()
}

/**
 * Returns the network that one caller has for itself, for limits per caller: of IPv6 the first 64 bits (RFC 7421), since
 * the rest is the caller's choice. Anything else is returned as it is.
 */
export function networkOf(address: string): string {
  if (isIP(address) !== 6) return address
  const parsed = ipaddr.process(address)
  if (parsed instanceof ipaddr.IPv4 || parsed.range() === 'loopback') return address
  return `${parsed.parts
    .slice(0, 4)
    .map(part => part.toString(16))
    .join(':')}::/64`
}

/**
 * Creates a check whether an address, in its usual form, is in one of these ranges.
 *
 * @param ranges as `parseRanges` of the options accepts them
 */
export function createRangeCheck(ranges: readonly string[]): (address: string) => boolean {
  const inside = ranges.map((range): [ipaddr.IPv4 | ipaddr.IPv6, number] => {
    const [text = '', length] = range.split('/')
    const [given, base] = [ipaddr.parse(text), ipaddr.process(text)]
    const bits = Number(length ?? (given.kind() === 'ipv4' ? 32 : 128))
    return [base, base.kind() === given.kind() ? bits : Math.max(0, bits - 96)]
  })
  return address => ipaddr.subnetMatch(ipaddr.process(address), { inside }, 'outside') === 'inside'
}
