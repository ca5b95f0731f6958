"""toy package"""
