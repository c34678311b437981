// Only with serviceBus: a queue that other services fill, beside the one of Storage. It has sessions and larger messages.
// It has a public address even with privateNetworking, which only the Premium tier could change; it takes Entra alone.
param name string
param location string
param tags object
param workPrincipalId string

var dataReceiver = '4f6d3b9b-027b-4f4c-9142-0e5a2a2247e0' // Azure Service Bus Data Receiver

resource namespace 'Microsoft.ServiceBus/namespaces@2024-01-01' = {
  name: name
  location: location
  tags: tags
  sku: { name: 'Standard', tier: 'Standard' }
  properties: {
    disableLocalAuth: true
    minimumTlsVersion: '1.2'
  }
}

// A sender needs Azure Service Bus Data Sender on it. What fails ten times is moved to its dead-letter queue.
resource queue 'Microsoft.ServiceBus/namespaces/queues@2024-01-01' = {
  parent: namespace
  name: 'oncebox-incoming'
  properties: {
    lockDuration: 'PT5M' // the host renews it while a function runs
    maxDeliveryCount: 10
    deadLetteringOnMessageExpiration: true
  }
}

resource mayReceive 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(queue.id, workPrincipalId, dataReceiver)
  scope: queue
  properties: {
    principalId: workPrincipalId
    principalType: 'ServicePrincipal'
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', dataReceiver)
  }
}

output id string = namespace.id
output hostName string = '${namespace.name}.servicebus.windows.net'
output queue string = queue.name
