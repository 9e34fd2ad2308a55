"""The front end for agents, by the Model Context Protocol: each tool calls one method of a `Delegate`.

The SDK is imported here and by no other command.
"""
