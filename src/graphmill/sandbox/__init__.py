"""The sandbox: runs programs of others, such as models, so that they can neither harm the machine nor forge what they did."""
