// Only with clientRequestsPerMinute: Front Door before the webhooks, which refuses an address that sends more than that.
param name string
param profileName string
param tags object
param hostName string
param requestsPerMinute int

resource profile 'Microsoft.Cdn/profiles@2024-09-01' existing = {
  name: profileName
}

resource endpoint 'Microsoft.Cdn/profiles/afdEndpoints@2024-09-01' = {
  parent: profile
  name: name
  location: 'global'
  tags: tags
  properties: { enabledState: 'Enabled' }
}

resource origins 'Microsoft.Cdn/profiles/originGroups@2024-09-01' = {
  parent: profile
  name: 'webhook'
  properties: {
    loadBalancingSettings: { sampleSize: 4, successfulSamplesRequired: 3, additionalLatencyInMilliseconds: 50 }
  }
}

resource origin 'Microsoft.Cdn/profiles/originGroups/origins@2024-09-01' = {
  parent: origins
  name: 'webhook'
  properties: {
    hostName: hostName
    originHostHeader: hostName
    httpsPort: 443
    enforceCertificateNameCheck: true
    enabledState: 'Enabled'
  }
}

resource route 'Microsoft.Cdn/profiles/afdEndpoints/routes@2024-09-01' = {
  parent: endpoint
  name: 'webhooks'
  properties: {
    originGroup: { id: origins.id }
    supportedProtocols: ['Https']
    httpsRedirect: 'Disabled'
    patternsToMatch: ['/webhooks/*']
    forwardingProtocol: 'HttpsOnly'
    linkToDefaultDomain: 'Enabled'
    enabledState: 'Enabled'
  }
  dependsOn: [origin]
}

resource firewall 'Microsoft.Network/FrontDoorWebApplicationFirewallPolicies@2024-02-01' = {
  name: replace('waf${name}', '-', '')
  location: 'global'
  tags: tags
  sku: { name: 'Standard_AzureFrontDoor' }
  properties: {
    policySettings: { enabledState: 'Enabled', mode: 'Prevention' }
    customRules: {
      rules: [
        {
          name: 'perAddress'
          priority: 100
          enabledState: 'Enabled'
          ruleType: 'RateLimitRule'
          rateLimitDurationInMinutes: 1
          rateLimitThreshold: requestsPerMinute
          action: 'Block'
          matchConditions: [
            {
              matchVariable: 'RequestUri'
              operator: 'Contains'
              matchValue: ['/webhooks/']
            }
          ]
        }
      ]
    }
  }
}

resource security 'Microsoft.Cdn/profiles/securityPolicies@2024-09-01' = {
  parent: profile
  name: 'per-address'
  properties: {
    parameters: {
      type: 'WebApplicationFirewall'
      wafPolicy: { id: firewall.id }
      associations: [{ domains: [{ id: endpoint.id }], patternsToMatch: ['/*'] }]
    }
  }
}

output hostName string = endpoint.properties.hostName
