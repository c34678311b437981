// Private endpoints of the services that the functions call: an address in the network and a name in a private zone each.
param location string
param tags object
param networkId string
param subnetId string
@description('[{ name: of the endpoint, service: blob, queue, vault, sqlServer or postgresqlServer, resourceId: of it }]')
param targets { name: string, service: string, resourceId: string }[]

var storageSuffix = environment().suffixes.storage
var zones = {
  blob: 'privatelink.blob.${storageSuffix}'
  queue: 'privatelink.queue.${storageSuffix}'
  vault: 'privatelink.vaultcore.azure.net'
  sqlServer: 'privatelink${environment().suffixes.sqlServerHostname}'
  postgresqlServer: 'privatelink.postgres.database.azure.com'
}
var serviceOfEach = [for target in targets: target.service]
var services = union(serviceOfEach, []) // each once

resource zone 'Microsoft.Network/privateDnsZones@2024-06-01' = [
  for service in services: {
    name: zones[service]
    location: 'global'
    tags: tags
  }
]

resource links 'Microsoft.Network/privateDnsZones/virtualNetworkLinks@2024-06-01' = [
  for (service, index) in services: {
    parent: zone[index]
    name: 'network'
    location: 'global'
    tags: tags
    properties: {
      registrationEnabled: false
      virtualNetwork: { id: networkId }
    }
  }
]

resource endpoints 'Microsoft.Network/privateEndpoints@2024-05-01' = [
  for target in targets: {
    name: 'pe-${target.name}'
    location: location
    tags: tags
    properties: {
      subnet: { id: subnetId }
      privateLinkServiceConnections: [
        {
          name: target.name
          properties: { privateLinkServiceId: target.resourceId, groupIds: [target.service] }
        }
      ]
    }
  }
]

resource names 'Microsoft.Network/privateEndpoints/privateDnsZoneGroups@2024-05-01' = [
  for (target, index) in targets: {
    parent: endpoints[index]
    name: 'default'
    properties: {
      privateDnsZoneConfigs: [
        { name: target.service, properties: { privateDnsZoneId: zone[indexOf(services, target.service)].id } }
      ]
    }
  }
]
