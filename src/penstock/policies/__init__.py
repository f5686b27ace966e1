"""Policies: who leaves when memory is full. One small file each; `table.POLICIES` lists them."""
