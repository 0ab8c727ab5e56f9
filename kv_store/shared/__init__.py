"""The shared tier: blocks on a server or in a folder that a team shares, signed with the team's key."""
