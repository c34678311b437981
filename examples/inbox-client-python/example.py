"""Handles a message once: python3 example.py <url> <key> [token in the environment as INBOX_TOKEN]"""

import os
import sys

from inbox_client import InboxClient

client = InboxClient(sys.argv[1], os.environ.get("INBOX_TOKEN"))
print(client.handle_once(sys.argv[2], lambda: print("sending the invoice"), owner="billing in Python"))
